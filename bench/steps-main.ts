/** `npm run bench:steps [--rounds N] [--no-write]`: figures of step machines, printed and written to docs/benchmarks-steps.md. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../setup/package-root.ts';
import { interleave, loadLine, spread } from './measure.ts';
import { renderFigures, type Figure } from './report.ts';
import { inProcessArm } from './steps.ts';

const SIZES = [10, 100, 1_000, 10_000];
const GOAL_MS = 0.05;
/** The longest session may cost this much more for each advance than one of a thousand steps, and still be called flat. */
const FLAT = 1.2;

async function engineFigure(rounds: number, say: (line: string) => void): Promise<Figure> {
  const results = await interleave(SIZES.map(inProcessArm), rounds, say);
  const longest = spread(results.at(-1)!.rounds.map(({ cpuMs }) => cpuMs)).median;
  const shorter = spread(results.at(-2)!.rounds.map(({ cpuMs }) => cpuMs)).median;
  return {
    title: 'Engine in process',
    method:
      'A step that loops, its answer checked by zod and merged into a sub-store, driven in this process. CPU is that of the whole process, garbage collection on other threads included.',
    rows: results.flatMap((result) => [
      { what: `${result.name}: wall`, value: spread(result.rounds.map(({ wallMs }) => wallMs)), unit: 'ms an advance' },
      { what: `${result.name}: CPU`, value: spread(result.rounds.map(({ cpuMs }) => cpuMs)), unit: 'ms an advance' },
    ]),
    goals: [
      { what: 'CPU of an advance at 10,000 steps', value: longest, goal: `≤ ${GOAL_MS} ms`, met: longest <= GOAL_MS },
      { what: 'the same against 1,000 steps', value: longest / shorter, goal: `≤ ${FLAT}`, met: longest / shorter <= FLAT },
    ],
  };
}

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' }, 'no-write': { type: 'boolean', default: false } } });
const rounds = Number(values.rounds);
if (!Number.isInteger(rounds) || rounds < 1) throw new Error(`--rounds is ${values.rounds}, expected a whole number from 1`);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const before = loadLine();
const figure = await engineFigure(rounds, say);
const report = renderFigures({
  title: 'Benchmarks of step machines',
  command: 'npm run bench:steps',
  facts: [`${rounds} rounds. Load: at the start ${before}; at the end ${loadLine()}.`],
  figures: [figure],
  takenOn: new Date().toISOString().slice(0, 10),
});
say(`\n${report}`);
if (!values['no-write']) writeFileSync(join(packageRoot(), 'docs', 'benchmarks-steps.md'), report);
