/** The page that the bench writes: what was measured, where, and whether the goals are met. */
import { cpus, release, totalmem } from 'node:os';
import type { Spread } from './measure.ts';
import { formatSpread } from './measure.ts';

export interface FigureRow {
  readonly what: string;
  readonly value: Spread;
  readonly unit: string;
}

export interface Goal {
  readonly what: string;
  readonly value: number;
  readonly goal: string;
  readonly met: boolean;
}

export interface Ratio {
  readonly what: string;
  readonly value: number;
}

export interface Figure {
  readonly title: string;
  readonly method: string;
  readonly rows: readonly FigureRow[];
  readonly goals: readonly Goal[];
  /** Ratios that explain why a goal is met or missed. */
  readonly ratios?: readonly Ratio[];
}

export interface Lane {
  readonly accelerator: string;
  readonly kernels: readonly string[];
  readonly qemu: string;
  readonly temporal: string;
  readonly rounds: number;
  readonly loads: readonly string[];
}

export interface Page {
  readonly title: string;
  /** The command that writes the page. */
  readonly command: string;
  /** Lines on where and how the figures were taken. */
  readonly facts: readonly string[];
  readonly figures: readonly Figure[];
  readonly takenOn: string;
}

export function renderReport(figures: readonly Figure[], lane: Lane, takenOn: string): string {
  return renderFigures({
    title: 'Benchmarks',
    command: 'npm run bench',
    facts: [
      `Lane: accelerator ${lane.accelerator}, kernels ${lane.kernels.join(' and ')}, ${lane.qemu}, ${lane.temporal}; ${lane.rounds} rounds.`,
      formatLoads(lane.loads),
    ],
    figures,
    takenOn,
  });
}

export function renderFigures({ title, command, facts, figures, takenOn }: Page): string {
  const lines = [
    `# ${title}`,
    '',
    `\`${command}\` writes this page. Arms are interleaved; each figure is the median of its rounds, with minimum and maximum. Absolute times are valid for this machine on that day; the ratios of interleaved arms are comparable across machines.`,
    '',
    `Taken ${takenOn} on ${cpus().length} CPUs (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, Node ${process.version}.`,
    ...facts,
    '',
  ];
  for (const figure of figures) lines.push(...listSection(figure));
  return `${lines.join('\n').trimEnd()}\n`;
}

/** Returns the section of a figure in the page. */
export function renderFigure(figure: Figure): string {
  return listSection(figure).join('\n').trimEnd();
}

/**
 * The page with some of its figures taken again: their sections are replaced, each with a line on when and where. One that the
 * page does not have yet comes last.
 */
export function replaceFigures(
  page: string,
  figures: readonly Figure[],
  lane: Pick<Lane, 'rounds' | 'loads'>,
  takenOn: string,
): string {
  const [head = '', ...sections] = page.split(/^(?=## )/m);
  const titles = sections.map((section) => section.slice('## '.length, section.indexOf('\n')));
  for (const figure of figures) {
    const known = titles.indexOf(figure.title);
    const at = known < 0 ? sections.length : known;
    if (known < 0 && at > 0) sections[at - 1] = `${sections[at - 1]!.trimEnd()}\n\n`;
    const taken = `Taken again ${takenOn}, ${lane.rounds} rounds, Node ${process.version}. ${formatLoads(lane.loads)}`;
    sections[at] = `${listSection({ ...figure, method: `${figure.method}\n\n${taken}` })
      .join('\n')
      .trimEnd()}\n\n`;
  }
  return `${(head + sections.join('')).trimEnd()}\n`;
}

/** Returns a sentence for each moment at which the load was read. */
export function formatLoads(loads: readonly string[]): string {
  return `Load average. ${loads.join('. ')}.`;
}

function listSection(figure: Figure): readonly string[] {
  const lines = [`## ${figure.title}`, '', figure.method, '', '| what | median (min–max) | unit |', '|---|---|---|'];
  for (const row of figure.rows) lines.push(`| ${row.what} | ${formatSpread(row.value)} | ${row.unit} |`);
  lines.push('');
  for (const goal of figure.goals)
    lines.push(
      `- ${goal.met ? 'met' : '**missed**'}: ${goal.what} is ${formatGoal(goal.value)}, the goal is ${goal.goal}.`,
    );
  for (const ratio of figure.ratios ?? []) lines.push(`- for comparison: ${ratio.what} is ${ratio.value.toFixed(2)}.`);
  if (figure.goals.length > 0) lines.push('');
  return lines;
}

/** Two decimals say all there is to say above 0.1. */
function formatGoal(value: number): string {
  return value < 0.1 ? value.toFixed(3) : value.toFixed(2);
}
