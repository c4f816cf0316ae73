/**
 * `npm run bench:compare -- BASE [--rounds N] [--only FIGURE]`: measures this checkout against another build, pair by pair, and fails if it is
 * slower by a tenth. BASE is a revision or a folder with a checkout.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { COMPARE_USAGE, readArguments } from './compare/arguments.ts';
import { prepareCheckout, resolvePieces } from './compare/build.ts';
import { compareBuilds } from './compare/figures.ts';
import { isLoss, MOST_RATIO, renderComparison } from './compare/judge.ts';
import { formatLoad } from './measure.ts';

async function main(): Promise<number> {
  const read = readArguments(process.argv.slice(2));
  if (read.kind === 'help') {
    process.stdout.write(COMPARE_USAGE);
    return 0;
  }
  if (read.kind === 'wrong') {
    process.stderr.write(`error: ${read.problem}\n\n${COMPARE_USAGE}`);
    return 2;
  }
  const { base: wanted, rounds, names } = read;
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
