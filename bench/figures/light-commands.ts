import { join } from 'node:path';
import { cliArms } from '../cli.ts';
import { interleave, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import type { Bench } from './bench.ts';

export async function cliFigure(bench: Bench): Promise<Figure> {
  const results = await interleave(
    cliArms(join(bench.root, 'bin', 'voidbox.js'), bench.workDir),
    Math.max(bench.rounds, 5),
    bench.say,
  );
  const median = (name: string): number =>
    spread(results.find((result) => result.name === name)!.rounds.map((round) => round.cpuMs)).median;
  const [help, validate] = [median('voidbox --help'), median('voidbox validate')];
  return {
    title: '(f) Light commands',
    method:
      'CPU time (user and system) of the whole process, compared with a Node process that does nothing. `NODE_EXTRA_CA_CERTS` is not set, because Node 20 reads that file at each start.',
    rows: results.map((result) => ({
      what: result.name,
      value: spread(result.rounds.map((round) => round.cpuMs)),
      unit: 'ms CPU',
    })),
    goals: [
      { what: '`voidbox --help` in ms', value: help, goal: '≤ 120', met: help <= 120 },
      { what: '`voidbox validate` in ms', value: validate, goal: '≤ 200', met: validate <= 200 },
    ],
  };
}
