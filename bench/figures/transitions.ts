import { interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { SHAPES, SIZES, transitionArm } from '../transitions.ts';
import type { Bench } from './bench.ts';

export async function transitionFigure(bench: Bench): Promise<Figure> {
  const arms = SHAPES.flatMap((shape) => SIZES.map((stages) => transitionArm(shape, stages)));
  const results = await interleave(arms, bench.rounds, bench.say);
  const perShape = SHAPES.map((shape, index) => ({
    shape,
    sizes: results.slice(index * SIZES.length, (index + 1) * SIZES.length),
  }));
  const slowestUs = Math.max(...results.map((result) => spread(result.rounds.map(({ us }) => us)).median));
  return {
    title: '(i) What a transition of the run machine costs',
    method:
      'CPU time of whole successful runs with `max_parallel: 50`, divided by the number of transitions; without server and VM.',
    rows: results.map((result) => ({
      what: result.name,
      value: spread(result.rounds.map(({ us }) => us)),
      unit: 'µs a transition',
    })),
    goals: [
      ...perShape.flatMap(({ shape, sizes: [least, ...larger] }) =>
        larger.map((result, index) => {
          const value = measurePairedRatio(result, least!, 'us').median;
          return {
            what: `${shape}: ${SIZES[index + 1]} stages against ${SIZES[0]}, paired`,
            value,
            goal: '≤ 3',
            met: value <= 3,
          };
        }),
      ),
      {
        what: 'transitions a second where they cost most',
        value: 1_000_000 / slowestUs,
        goal: '≥ 100,000',
        met: slowestUs <= 10,
      },
    ],
  };
}
