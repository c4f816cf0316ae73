/**
 * The command line of a bench: takes the named figures, and prints each and writes it to their page when it is taken. So a bench
 * that is killed loses only the figure that it takes.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeBenchCommand } from './bench-command.ts';
import { doAtEnd } from '../guard/guard.mjs';
import { formatLoad } from '../measure.ts';
import { type Figure, formatLoads, renderFigure, renderFigures, replaceFigures } from '../report.ts';

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
  const line = makeBenchCommand(
    command,
    `Takes figures, prints each, and writes it to docs/reference/${page}.`,
    Object.keys(known),
  ).parse();
  const { rounds, write } = line.opts<{ rounds: number; write: boolean }>();
  const named = line.processedArgs[0] as string[];
  const names = named.length === 0 ? Object.keys(known) : named;
  const printLine = (line: string): void => void process.stdout.write(`${line}\n`);
  const workDir = mkdtempSync(join(tmpdir(), `voidbox-${command.replace(':', '-')}-`));
  doAtEnd({ remove: workDir });
  const file = join(findPackageRoot(), 'docs', 'reference', page);
  const loads = [`At the start: ${formatLoad()}`];
  const figures: Figure[] = [];
  const renderPage = (figure: Figure, figureLoads: readonly string[]): string => {
    const takenOn = new Date().toISOString().slice(0, 10);
    const isWhole = figures.length === Object.keys(known).length;
    if (!isWhole && existsSync(file))
      return replaceFigures(readFileSync(file, 'utf8'), [figure], { rounds, loads: figureLoads }, takenOn);
    const facts = [...describeFacts(rounds), formatLoads(loads)];
    return renderFigures({ title, command: `npm run ${command}`, facts, figures, takenOn });
  };
  try {
    const bench = await prepare({ workDir, rounds, say: printLine });
    for (const name of names) {
      const before = formatLoad();
      printLine(`\n${name} (load average ${before})`);
      const figure = await known[name]!(bench);
      figures.push(figure);
      const after = `After ${name}: ${formatLoad()}`;
      loads.push(after);
      printLine(`\n${renderFigure(figure)}`);
      if (write) writeFileSync(file, renderPage(figure, [`Before ${name}: ${before}`, after]));
    }
    printLine(`\n${formatLoads(loads)}`);
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}
