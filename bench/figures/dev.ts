/** Measures the cost of the dev image: building it, booting it, and starting the command lines of agents on it. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AGENT_LAYERS } from '../../activities/ports/agent-layers.ts';
import type { FindVmExtra } from '../../sandbox/micro-vm/backend.ts';
import { createQemuBackend } from '../../sandbox/micro-vm/qemu/backend.ts';
import { readHostMemory } from '../../setup/machine/host-memory.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { agentStartArm, startAskedModel } from '../agent-start.ts';
import { interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { coldBootArm, warmVm } from '../vm.ts';
import type { Bench } from './bench.ts';

const MOST_AGAINST_BARE = 1.25;
/** claude's command line takes most of it. */
const MEMORY_MIB = 1024;
const DEV = { image: { kind: 'dev' }, memoryMib: MEMORY_MIB } as const;

export async function devFigure(bench: Bench): Promise<Figure> {
  const { env, rounds, say } = bench;
  const began = performance.now();
  const fresh = { ...env, cacheDir: join(bench.workDir, 'cache') };
  const made = (await resolveOptionalPieces(fresh, ['dev'], { install: true, onProgress: say })).get('dev')!;
  const buildS = (performance.now() - began) / 1000;
  const { blocks, size } = await stat(made);

  const backend = backendOf(bench, async (name) => {
    if (name === 'dev') return made;
    return (await resolveOptionalPieces(env, [name], { install: true, onProgress: say })).get(name)!;
  });
  const [bare, dev] = await interleave(
    [coldBootArm('bare', backend, { memoryMib: MEMORY_MIB }), coldBootArm('dev', backend, DEV)],
    rounds,
    say,
  );
  await using model = await startAskedModel();
  const services = [{ name: 'model', host: '127.0.0.1', port: model.port }];
  await using warm = await warmVm(backend, {
    ...DEV,
    layers: AGENT_LAYERS,
    egress: { allow: [], deny: [], services },
  });
  const clis = await interleave(
    AGENT_LAYERS.map((layer) => agentStartArm(layer, warm.vm, model)),
    rounds,
    say,
  );
  const ratio = measurePairedRatio(dev!, bare!, 'toFirstExecMs').median;
  return {
    title: '(n) The dev image',
    method: `Made once in an empty cache, with its packages downloaded from this machine's mirror. Boots as in (b), both with ${MEMORY_MIB} MiB, in turn. Command lines of agents are called in a VM of the image as a stage calls them, against a server that answers at once. One time ends at the first request that the server gets, the other at the end of the turn. The maximum is usually the first start, from the host's files. Debian kernel, one vCPU.`,
    rows: [
      { what: 'to make it, download included', value: spread([buildS]), unit: 's' },
      { what: 'its disk, as a file', value: spread([size / 1e6]), unit: 'MB' },
      { what: 'its disk, as it takes room', value: spread([(blocks * 512) / 1e6]), unit: 'MB' },
      {
        what: "without it: to the first command's exit",
        value: spread(bare!.rounds.map((round) => round.toFirstExecMs)),
        unit: 'ms',
      },
      {
        what: "with it: to the first command's exit",
        value: spread(dev!.rounds.map((round) => round.toFirstExecMs)),
        unit: 'ms',
      },
      ...clis.flatMap(({ name, rounds: taken }) => [
        {
          what: `start of ${name}, to its first call of the model`,
          value: spread(taken.map(({ toFirstCallMs }) => toFirstCallMs)),
          unit: 'ms',
        },
        {
          what: `a turn of ${name} with one answer`,
          value: spread(taken.map(({ turnMs }) => turnMs)),
          unit: 'ms',
        },
      ]),
    ],
    goals: [
      {
        what: "to the first command's exit against the guest's own image, paired",
        value: ratio,
        goal: `≤ ${MOST_AGAINST_BARE}`,
        met: ratio <= MOST_AGAINST_BARE,
      },
    ],
  };
}

function backendOf({ workDir, pieces }: Bench, extra: FindVmExtra): ReturnType<typeof createQemuBackend> {
  return createQemuBackend({
    vmsDir: join(workDir, 'vms'),
    keeper: pieces.keeper,
    pieces: () => Promise.resolve(pieces),
    extra,
    hostMemoryMib: () => readHostMemory().totalMib,
  });
}
