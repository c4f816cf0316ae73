import type { Command, Help, Option } from 'commander';

/** The help of a command with many options: its description, the common options and examples come first. */
export interface CommandHelp {
  /** The usage after the name of the command, if commander's own is not how the command is typed. */
  readonly usage?: string;
  /** Long names of the options that most users need, in this order. */
  readonly common: readonly string[];
  readonly examples: readonly (readonly [line: string, effect: string])[];
  /** Facts and limits, each with its term. */
  readonly notes: readonly (readonly [term: string, text: string])[];
  readonly exitCodes: readonly (readonly [code: string, meaning: string])[];
}

type Row = readonly [term: string, text: string];

export function renderCommandHelp(command: Command, helper: Help, help: CommandHelp): string {
  const width = helper.helpWidth ?? 80;
  const options = helper.visibleOptions(command);
  const common = help.common.flatMap((long) => options.find((option) => option.long === long) ?? []);
  const other = options.filter((option) => !common.includes(option));
  const toRow = (option: Option): Row => [helper.optionTerm(option), helper.optionDescription(option)];
  const args = helper
    .visibleArguments(command)
    .map((argument): Row => [helper.argumentTerm(argument), helper.argumentDescription(argument)]);
  const column = measureTerms([...args, ...options.map(toRow)]);
  const renderList = (title: string, rows: readonly Row[], termWidth = column): readonly string[] =>
    rows.length === 0
      ? []
      : [title, ...rows.map(([term, text]) => helper.formatItem(term, termWidth, text, helper)), ''];
  return [
    helper.boxWrap(helper.commandDescription(command), width),
    '',
    `Usage: ${helper.commandUsage(command)}`,
    '',
    ...renderList('Arguments:', args),
    ...renderList('Common options:', common.map(toRow)),
    ...renderList('Examples:', help.examples, measureTerms(help.examples)),
    ...renderList('Other options:', other.map(toRow)),
    ...renderList('Notes:', help.notes, measureTerms(help.notes)),
    ...renderList('Exit codes:', help.exitCodes, measureTerms(help.exitCodes)),
  ].join('\n');
}

function measureTerms(rows: readonly Row[]): number {
  return Math.max(...rows.map(([term]) => term.length));
}
