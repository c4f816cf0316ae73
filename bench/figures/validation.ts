import { join } from 'node:path';
import { cliArms } from '../cli.ts';
import { interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { SPEC_SHAPES, SPEC_SIZES, validationArm } from '../validation.ts';
import type { Bench } from './bench.ts';

export async function validationFigure(bench: Bench): Promise<Figure> {
  const bin = join(bench.root, 'bin', 'voidbox.js');
  const [idle, , small] = cliArms(bin, bench.workDir);
  const generated = SPEC_SHAPES.flatMap((shape) =>
    SPEC_SIZES.map((size) => validationArm(bin, bench.workDir, shape, size)),
  );
  const results = await interleave([idle!, small!, ...generated], Math.max(bench.rounds, 5), bench.say);
  const [nothing, smallSpec, ...specs] = results;
  const smallRatio = measurePairedRatio(smallSpec!, nothing!, 'cpuMs').median;
  return {
    title: '(j) Validation',
    method: `CPU time (user and system) of \`voidbox validate\`, compared with a Node process that does nothing in the same round. Generated specs: a pipeline whose boxes run one after the other, and a workflow whose steps have a VM each and wait for up to three others. Linear is a cost of at most ${SPEC_SIZES[1] / SPEC_SIZES[0]} × for ${SPEC_SIZES[1] / SPEC_SIZES[0]} × the stages, without that of the idle process.`,
    rows: results.map(({ name, rounds }) => ({
      what: name,
      value: spread(rounds.map(({ cpuMs }) => cpuMs)),
      unit: 'ms CPU',
    })),
    goals: [
      { what: 'a small spec against `node -e 0`, paired', value: smallRatio, goal: '≤ 3', met: smallRatio <= 3 },
      ...SPEC_SHAPES.flatMap((shape, index) => {
        const [few, many] = [specs[index * 2]!, specs[index * 2 + 1]!];
        const seconds = spread(many.rounds.map(({ cpuMs }) => cpuMs)).median / 1_000;
        const growth = spread(
          many.rounds.map(({ cpuMs }, round) => {
            const idleMs = nothing!.rounds[round]!.cpuMs;
            return (cpuMs - idleMs) / (few.rounds[round]!.cpuMs - idleMs);
          }),
        ).median;
        return [
          { what: `${shape}: ${SPEC_SIZES[1]} stages in s CPU`, value: seconds, goal: '≤ 3', met: seconds <= 3 },
          {
            what: `${shape}: ${SPEC_SIZES[1]} against ${SPEC_SIZES[0]}, paired`,
            value: growth,
            goal: '≤ 10',
            met: growth <= 10,
          },
        ];
      }),
    ],
  };
}
