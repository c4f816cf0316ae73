import { join } from 'node:path';
import { measureMemory } from '../memory.ts';
import type { Figure } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { type Bench, startOurWorker } from './bench.ts';

export async function memoryFigure(bench: Bench): Promise<Figure> {
  const { pieces, workDir } = bench;
  await using server = await startServer(pieces.temporalCli, join(workDir, 'memory.db'), TUNED_FLAGS);
  await using worker = await startOurWorker(bench, server.address, 'memory-state');
  const measured = await measureMemory({
    address: server.address,
    workerPid: worker.pid,
    stateDir: join(workDir, 'memory-state'),
    rounds: bench.rounds,
    say: bench.say,
  });
  return {
    title: '(e) Memory',
    method:
      "Worker: the growth of resident memory per stage, from no stage to four stages in four VMs. QEMU: resident memory without the guest's 256 MiB. Keeper: resident memory.",
    rows: [
      { what: 'worker, idle', value: measured.workerIdleMib, unit: 'MiB' },
      { what: 'worker, more for each running stage', value: measured.workerPerStageMib, unit: 'MiB' },
      { what: 'QEMU beside guest memory', value: measured.qemuBesideGuestMib, unit: 'MiB' },
      { what: 'keeper', value: measured.keeperMib, unit: 'MiB' },
    ],
    goals: [],
  };
}
