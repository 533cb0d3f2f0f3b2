# shellcheck shell=bash
# Sourced by the other scripts: makes .venv where it is missing and installs the project with the extras asked for.
#
#   prepare EXTRAS   EXTRAS: comma-separated names from setup.py, or nothing
#
# IPSRL_VENV is the virtual environment (.venv by default), IPSRL_PYTHON the interpreter to make it with (python3).

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
VENV="${IPSRL_VENV:-.venv}"

prepare() {
    local extras="$1" stamp
    # A second call must start at once: the stamp says which packaging files were installed, and with which extras.
    stamp="$(cat setup.py pyproject.toml | cksum) $(pwd)"
    if [ -f "$VENV/installed-$extras" ] && [ "$(cat "$VENV/installed-$extras")" = "$stamp" ]; then
        return
    fi
    if [ ! -x "$VENV/bin/python" ]; then
        echo "Making the virtual environment $VENV" >&2
        "${IPSRL_PYTHON:-python3}" -m venv "$VENV" || return 1
    fi
    echo "Installing ipsrl and what it needs (once)" >&2
    local target="."
    [ -n "$extras" ] && target=".[$extras]"
    if [[ ",$extras," == *,peers,* ]]; then
        # PyTorch's own index has a wheel without CUDA, a tenth of the size. Where it is out of reach, any wheel does.
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --no-deps torch \
            --index-url https://download.pytorch.org/whl/cpu 2>/dev/null || true
    fi
    # uv is faster, and not needed.
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || true
    if [ -x "$VENV/bin/uv" ]; then
        "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --editable "$target" || return 1
    else
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$target" || return 1
    fi
    echo "$stamp" > "$VENV/installed-$extras"
}
