/** The command line of a bench: takes the named figures, prints them, and writes their page when all were taken. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findPackageRoot } from '../setup/package-root.ts';
import { formatLoad } from './measure.ts';
import { type Figure, formatLoads, renderFigures } from './report.ts';

export interface Bench {
  /** A folder for the files of the figures, which is removed at the end. */
  readonly workDir: string;
  readonly rounds: number;
  readonly say: (line: string) => void;
}

export interface FiguresOptions<B extends Bench> {
  /** `bench:steps`. */
  readonly command: string;
  readonly title: string;
  /** The file in docs/reference. */
  readonly page: string;
  readonly figures: Readonly<Record<string, (bench: B) => Promise<Figure>>>;
  /** Lines on where and how the figures were taken, before the load of the machine. */
  readonly describeFacts: (rounds: number) => readonly string[];
  /** Makes what all figures need. */
  readonly prepare: (bench: Bench) => Promise<B>;
}

export async function runFigures<B extends Bench>(options: FiguresOptions<B>): Promise<void> {
  const { command, title, page, figures: known, describeFacts, prepare } = options;
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '5' }, 'no-write': { type: 'boolean', default: false } },
  });
  const rounds = Number(values.rounds);
  const names = positionals.length === 0 ? Object.keys(known) : positionals;
  const unknown = names.filter((name) => !Object.hasOwn(known, name));
  if (!Number.isInteger(rounds) || rounds < 1 || unknown.length > 0)
    throw new Error(
      `usage: ${command} [${Object.keys(known).join('|')} …] [--rounds N] [--no-write]; got ${[...unknown, values.rounds].join(' ')}`,
    );
  const printLine = (line: string): void => void process.stdout.write(`${line}\n`);
  const workDir = mkdtempSync(join(tmpdir(), `voidbox-${command.replace(':', '-')}-`));
  const loads = [`At the start: ${formatLoad()}`];
  try {
    const bench = await prepare({ workDir, rounds, say: printLine });
    const figures: Figure[] = [];
    for (const name of names) {
      printLine(`\n${name} (load average ${formatLoad()})`);
      figures.push(await known[name]!(bench));
      loads.push(`After ${name}: ${formatLoad()}`);
    }
    const report = renderFigures({
      title,
      command: `npm run ${command}`,
      facts: [...describeFacts(rounds), formatLoads(loads)],
      figures,
      takenOn: new Date().toISOString().slice(0, 10),
    });
    printLine(`\n${report}`);
    if (names.length === Object.keys(known).length && !values['no-write'])
      writeFileSync(join(findPackageRoot(), 'docs', 'reference', page), report);
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}
