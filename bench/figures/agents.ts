import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { openStores } from '../../store/open-stores.ts';
import { agentArm, type AgentMeasure } from '../agents.ts';
import { interleave, type Spread, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import type { Bench } from './bench.ts';

const PAIRS = 10;
const MOST_OVERHEAD_MS = 300;

export async function agentFigure(bench: Bench): Promise<Figure> {
  const stateDir = join(bench.workDir, 'agents-state');
  const env = { ...bench.env.variables, VOIDBOX_STATE_DIR: stateDir, NO_COLOR: '1' };
  const bin = join(bench.root, 'bin', 'voidbox.js');
  await resolveOptionalPieces(bench.env, ['dev'], { install: true, onProgress: bench.say });
  const { reader, close } = await openStores({ stateDir });
  try {
    const arm = agentArm({ bin, workDir: bench.workDir, env, reader }, PAIRS);
    const [result] = await interleave([arm], PAIRS, bench.say);
    const of = (measure: AgentMeasure): Spread => spread(result!.rounds.map((round) => round[measure]));
    const overhead = of('overheadMs');
    return {
      title: '(o) An agent’s stage',
      method: `The mock agent as a stage, and the same call of it by hand, in turn in one VM of the dev image: ${PAIRS} pairs of one run. A stage counts from the end of the stage before it to its own end. By hand is a shell of the VM, which takes the time itself; as a command it is the stage around that shell. Debian kernel, one vCPU.`,
      rows: [
        { what: 'mock agent by hand', value: of('byHandMs'), unit: 'ms' },
        { what: 'the stage of a command that does this', value: of('commandStageMs'), unit: 'ms' },
        { what: 'the stage of the agent', value: of('agentStageMs'), unit: 'ms' },
        { what: 'more than by hand, paired', value: overhead, unit: 'ms' },
      ],
      goals: [
        {
          what: 'what the stage takes beside its agent, in ms',
          value: overhead.median,
          goal: `≤ ${MOST_OVERHEAD_MS}`,
          met: overhead.median <= MOST_OVERHEAD_MS,
        },
      ],
    };
  } finally {
    await close();
    execFileSync(process.execPath, [bin, 'down'], { env });
  }
}
