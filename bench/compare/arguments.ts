/** The arguments of `npm run bench:compare`. */
import { parseArgs } from 'node:util';
import { FIGURE_NAMES } from './figures.ts';

type FigureName = (typeof FIGURE_NAMES)[number];

export type CompareArguments =
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problem: string }
  | { readonly kind: 'compare'; readonly base: string; readonly rounds: number; readonly names: readonly FigureName[] };

export const COMPARE_USAGE = `usage: npm run bench:compare -- REVISION|FOLDER [--rounds N] [--only ${FIGURE_NAMES.join('|')}]

Measures this checkout against another build, pair by pair, and exits with 1 if a figure is slower by a tenth.

  REVISION|FOLDER  a revision of this repository, or a folder with another checkout
  --rounds N       pairs of measurements for each figure (default: 7)
  --only FIGURE    only this figure; repeatable
`;

export function readArguments(args: readonly string[]): CompareArguments {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: '7' },
        only: { type: 'string', multiple: true, default: [] },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return { kind: 'wrong', problem: (error as Error).message };
  }
  const { values, positionals } = parsed;
  if (values.help) return { kind: 'help' };
  const [base, ...rest] = positionals;
  if (base === undefined) return { kind: 'wrong', problem: 'the revision or folder to compare with is missing' };
  if (rest.length > 0)
    return { kind: 'wrong', problem: `one revision or folder is allowed, got also ${rest.join(' ')}` };
  const unknown = values.only.find((name) => !FIGURE_NAMES.some((known) => known === name));
  if (unknown !== undefined)
    return { kind: 'wrong', problem: `--only ${unknown}: there is no such figure; use ${FIGURE_NAMES.join(', ')}` };
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1)
    return { kind: 'wrong', problem: `--rounds must be a whole number from 1, got ${values.rounds}` };
  return {
    kind: 'compare',
    base,
    rounds,
    names: FIGURE_NAMES.filter((name) => values.only.length === 0 || values.only.includes(name)),
  };
}
