# shellcheck shell=bash
# Sourced by the other scripts: makes .venv where it is missing and installs the project with the extras asked for.
#
#   prepare EXTRAS        EXTRAS: comma-separated names from setup.py, or nothing
#   interpreter VERSION   prints the path of a Python of this version (3.12), from the path, pyenv or uv; fails without one
#
# Without extras what is installed is requirements.lock, whose files are checked by their hashes; with extras the versions
# are those of constraints.txt. IPSRL_LATEST=1 takes the newest instead that setup.py allows.
#
# IPSRL_VENV is the virtual environment (.venv by default, .venv-latest with the newest), IPSRL_PYTHON the interpreter to make it with (python3).

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
VENV="${IPSRL_VENV:-.venv${IPSRL_LATEST:+-latest}}"

prepare() {
    local extras="$1" stamp
    # A second call must start at once: the stamp says which packaging files were installed, and with which extras.
    stamp="$(cat setup.py pyproject.toml requirements.lock constraints.txt | cksum) $(pwd)"
    if [ -f "$VENV/installed-$extras" ] && [ "$(cat "$VENV/installed-$extras")" = "$stamp" ]; then
        return
    fi
    if [ ! -x "$VENV/bin/python" ]; then
        echo "Making the virtual environment $VENV" >&2
        "${IPSRL_PYTHON:-python3}" -m venv "$VENV" || return 1
    fi
    echo "Installing ipsrl and what it needs (once)" >&2
    if [ -z "${IPSRL_LATEST:-}" ]; then
        # Also for the environments in which packages are built: before pip 25.3 PIP_CONSTRAINT counts there, too.
        local -x PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
        local -x UV_CONSTRAINT=constraints.txt UV_BUILD_CONSTRAINT=constraints.txt
    fi
    local pip=("$VENV/bin/python" -m pip install --quiet --disable-pip-version-check)
    local install=("${pip[@]}")
    if [[ ",$extras," == *,peers,* ]]; then
        # PyTorch's own index has a wheel without CUDA, a tenth of the size. Where it is out of reach, any wheel does.
        "${pip[@]}" --retries 1 --no-deps torch --index-url https://download.pytorch.org/whl/cpu 2>/dev/null || true
    fi
    # uv is faster, and not needed.
    if [ -n "${IPSRL_LATEST:-}" ]; then
        "${pip[@]}" uv 2>/dev/null || true
    else
        "${pip[@]}" --require-hashes --requirement <(locked uv) 2>/dev/null || true
    fi
    if [ -x "$VENV/bin/uv" ]; then
        install=("$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python")
    fi
    if [ -n "${IPSRL_LATEST:-}" ]; then
        "${install[@]}" --upgrade --editable ".${extras:+[$extras]}" || return 1
    elif [ -n "$extras" ]; then
        "${install[@]}" --editable ".[$extras]" || return 1
    else
        # Packages are built by this setuptools: an environment for their builds alone would be filled without hashes.
        "${pip[@]}" --require-hashes --requirement <(locked setuptools) || return 1
        "${install[@]}" --no-build-isolation --require-hashes --requirement requirements.lock || return 1
        "${install[@]}" --no-build-isolation --no-deps --editable . || return 1
    fi
    echo "$stamp" > "$VENV/installed-$extras"
}

# Prints the lines of a package in requirements.lock.
locked() { awk -v start="$1==" 'index($0, start) == 1 { on = 1 } on; !/\\$/ { on = 0 }' requirements.lock; }

interpreter() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python "$(uv python find --system "$1" 2>/dev/null)"; do
        # pyenv puts commands on the path that say that they are not there.
        if [ -n "$candidate" ] && "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            "$candidate" -c "import sys; print(sys.executable)"
            return
        fi
    done
    return 1
}
