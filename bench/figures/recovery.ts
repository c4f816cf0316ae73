import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { openStores } from '../../store/open-stores.ts';
import { interleave, spread } from '../measure.ts';
import { recoveryArm } from '../recovery.ts';
import type { Figure } from '../report.ts';
import type { Bench } from './bench.ts';

/** The worker's heartbeat timeout in seconds; @see workflows/activity-options.ts */
const HEARTBEAT_TIMEOUT_S = 10;

export async function recoveryFigure(bench: Bench): Promise<Figure> {
  const stateDir = join(bench.workDir, 'recovery-state');
  const env = { ...bench.env.variables, VOIDBOX_STATE_DIR: stateDir, NO_COLOR: '1' };
  const bin = join(bench.root, 'bin', 'voidbox.js');
  const { reader, close } = await openStores({ stateDir });
  try {
    const [result] = await interleave(
      [recoveryArm(bin, stateDir, bench.workDir, reader, env)],
      bench.rounds,
      bench.say,
    );
    const value = spread(result!.rounds.map((round) => round.secondsToNextLine));
    return {
      title: '(g) Recovery',
      method:
        'Time from `kill -9` of the worker until readers see the next line of the running stage. The command keeps running in its VM.',
      rows: [{ what: result!.name, value, unit: 's' }],
      goals: [
        {
          what: 'seconds to the next line',
          value: value.median,
          goal: `≤ heartbeat timeout (${HEARTBEAT_TIMEOUT_S}) + 2`,
          met: value.median <= HEARTBEAT_TIMEOUT_S + 2,
        },
      ],
    };
  } finally {
    await close();
    execFileSync(process.execPath, [bin, 'down'], { env });
  }
}
