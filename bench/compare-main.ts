/**
 * `npm run bench:compare -- BASE [--rounds N] [--only FIGURE]`: measures this checkout against another build, pair by pair, and fails if it is
 * slower by a tenth. BASE is a revision or a folder with a checkout.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { prepareCheckout, resolvePieces } from './compare/build.ts';
import { compareBuilds, FIGURE_NAMES } from './compare/figures.ts';
import { isLoss, MOST_RATIO, renderComparison } from './compare/judge.ts';
import { formatLoad } from './measure.ts';

const USAGE = `usage: npm run bench:compare -- REVISION|FOLDER [--rounds N] [--only ${FIGURE_NAMES.join('|')}]`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '7' }, only: { type: 'string', multiple: true, default: [] } },
  });
  const names = FIGURE_NAMES.filter((name) => values.only.length === 0 || values.only.includes(name));
  const unknown = values.only.filter((name) => !FIGURE_NAMES.some((known) => known === name));
  const rounds = Number(values.rounds);
  const [wanted, ...rest] = positionals;
  if (wanted === undefined || rest.length > 0 || unknown.length > 0 || !Number.isInteger(rounds) || rounds < 1) {
    process.stderr.write(`${USAGE}\n`);
    return 2;
  }
  const printLine = (line: string): void => void process.stderr.write(`${line}\n`);
  const root = findPackageRoot();
  const workDir = mkdtempSync(join(tmpdir(), 'voidbox-compare-'));
  try {
    const baseRoot = prepareCheckout(wanted, root, workDir, printLine);
    const builds = [
      { name: 'base', root: baseRoot, pieces: resolvePieces(baseRoot) },
      { name: 'this build', root, pieces: resolvePieces(root) },
    ] as const;
    printLine(`at the start: load average ${formatLoad()}`);
    const compared = await compareBuilds({ env: readEnvironment(), workDir, rounds, say: printLine }, builds, names);
    printLine(`at the end: load average ${formatLoad()}`);
    for (const line of renderComparison(compared)) process.stdout.write(`${line}\n`);
    const losses = compared.filter(isLoss);
    if (losses.length === 0) return 0;
    process.stdout.write(`${losses.length} of ${compared.length} figures reach ${MOST_RATIO} × of ${wanted}.\n`);
    return 1;
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

process.exitCode = await main();
