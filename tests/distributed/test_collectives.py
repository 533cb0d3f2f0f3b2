"""The collectives found in programs, against those that the programs are known to contain."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from benchmarks.collectives import Collective, collectives
from ipsrl.distributed.mesh import make_mesh

pytestmark = pytest.mark.eight_devices


def program(function, array, rounds):
    """The text of `function` of one device's part, run `rounds` times on a mesh of four by two."""
    mesh = make_mesh("data:4,model:2")

    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=PartitionSpec("data", "model"), out_specs=PartitionSpec(), check_vma=False
    )
    def mapped(part):
        total, _ = jax.lax.scan(lambda total, _: (total + function(part, total), None), jnp.float32(0), length=rounds)
        return jax.lax.psum(total, ("data", "model"))

    return jax.jit(mapped).lower(array).compile().as_text()


def sum_of(collective):
    # It depends on the round, so that it cannot leave the loop.
    return lambda part, total: jnp.sin(collective(part + total)).sum()


X = jnp.ones((16, 64))  # a part is [4, 32], 512 bytes


@pytest.mark.parametrize(
    ("collective", "kind", "whole", "group", "sent"),
    [
        (lambda x: jax.lax.all_gather(x, "data"), "all-gather", 2048, (0, 2, 4, 6), 1536),
        (lambda x: jax.lax.psum(x, "model"), "all-reduce", 512, (0, 1), 512),
        (lambda x: jax.lax.psum_scatter(x, "data"), "reduce-scatter", 512, (0, 2, 4, 6), 384),
        (lambda x: jax.lax.all_to_all(x, "model", 1, 0, tiled=True), "all-to-all", 512, (0, 1), 256),
        (lambda x: jax.lax.ppermute(x, "model", [(0, 1), (1, 0)]), "collective-permute", 512, (0, 1), 512),
    ],
)
def test_kinds_bytes_and_rounds(collective, kind, whole, group, sent):
    found = collectives(program(sum_of(collective), X, rounds=3))
    inside = [one for one in found if one.times == 3]
    assert [(one.kind, one.bytes, one.group, one.sent) for one in inside] == [(kind, whole, group, sent)]
    assert [(one.kind, one.bytes, len(one.group)) for one in found if one not in inside] == [("all-reduce", 4, 8)]


# Lines as the compilers write them, cut to what is read.
TPU = """HloModule jit_update

%wide.condition (p: (s32[])) -> pred[] {
  %constant.1 = u32[]{:T(128)} constant(5)
  ROOT %compare = pred[] compare(%i, %constant.1), direction=LT
}

%all-reduce-scatter.3 (p: bf16[64,32]) -> bf16[16,32] {
  %all-reduce.1 = bf16[64,32]{1,0:T(8,128)(2,1)} all-reduce(%p), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%add
}

%body.2 (p: (s32[])) -> (s32[]) {
  %fusion.1 = bf16[16,32]{1,0} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.3, metadata={}
  %start = (bf16[8]{0}, bf16[16]{0}) all-gather-start(%p), replica_groups=mesh['a'=4,'b'=2] {'a'}, dimensions={0}
  %done = bf16[16]{0} all-gather-done(%start)
  %alone = f32[8]{0} all-reduce(%p), replica_groups={{0},{1}}, to_apply=%add
}

ENTRY %main (p: s32[]) -> s32[] {
  %while.1 = (s32[]) while(%tuple), condition=%wide.condition, body=%body.2
  %ar = (f32[8]{0}, pred[]) all-reduce(%p, %q), replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}
  %cp = (s32[4]{0:S(1)}, s32[4]{0}, u32[], u32[]) collective-permute-start(%p), source_target_pairs={{0,0},{1,2},{2,1}}
}
"""


def test_the_forms_of_other_compilers():
    assert collectives(TPU) == [
        Collective("reduce-scatter", ((64, 32),), 4096, (0, 2, 4, 6), 5),
        Collective("all-gather", ((16,),), 32, (0, 2, 4, 6), 5),
        Collective("all-reduce", ((8,), ()), 33, (0, 2, 4, 6), 1),
        Collective("collective-permute", ((4,),), 16, (1, 2), 1),
    ]


def test_a_loop_without_an_end():
    endless = TPU.replace("%constant.1 = u32[]{:T(128)} constant(5)", "")
    with pytest.raises(ValueError, match=r"the condition 'wide.condition' of a loop has no number of rounds"):
        collectives(endless)
