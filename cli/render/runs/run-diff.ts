/** `voidbox diff`: what differs, in the signs of diff(1). */
import type { DataRef } from '../../../domain/plan/plan.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Both, OutputDiff, RunDiff, StageDiff } from '../../../app/runs/diff-runs.ts';
import type { DiffLine } from '../../../app/runs/line-diff.ts';
import { paintOutcome } from '../../../app/lines/event-lines.ts';
import type { Style } from '../text/style.ts';

export function renderRunDiff(diff: RunDiff, style: Style): string[] {
  const [one, other] = diff.runs.map(sanitizeLine);
  if (diff.isSame)
    return [
      `${one} and ${other} are the same: ${diff.params === null ? '' : 'params, '}input, stages, states and outputs${times(diff.tookMs)}`,
    ];
  const heading = (sign: string, run: string | undefined, at: 0 | 1): string =>
    `${style.bold(`${sign} ${run}`)}  ${paintOutcome(diff.states[at], style)}${formatDuration(diff.tookMs[at])}`;
  return [
    heading('---', one, 0),
    heading('+++', other, 1),
    ...renderParams(diff, style),
    ...(diff.isSameInput ? [] : ['', 'the input differs']),
    ...(diff.plan.length === 0 ? [] : ['', `of the whole plan differs: ${diff.plan.join(', ')}`]),
    ...renderSpec(diff, style),
    ...(diff.stages.length === 0 ? [] : ['', style.bold('stages')]),
    ...diff.stages.flatMap((stage) => renderStage(stage, style)),
  ];
}

function renderParams({ params }: RunDiff, style: Style): string[] {
  if (params === null) return ['', style.dim('params and specs of one run were not recorded')];
  if (params.length === 0) return [];
  const line = (sign: '-' | '+', name: string, value: string | null): string[] =>
    value === null ? [] : [signed({ sign, text: `${name}=${value}` }, style)];
  return [
    '',
    style.bold('params given'),
    ...params.flatMap(({ name, values: [from, to] }) => [...line('-', name, from), ...line('+', name, to)]),
  ];
}

function renderSpec({ spec }: RunDiff, style: Style): string[] {
  return spec === null || spec.length === 0 ? [] : ['', style.bold('spec'), ...spec.map((line) => signed(line, style))];
}

function renderStage({ id, states, exitCodes, tookMs, keys, outputs }: StageDiff, style: Style): string[] {
  const name = style.bold(sanitizeLine(id));
  if (states[0] === null) return [`  ${style.green(`+ ${sanitizeLine(id)}`)}  only in the second, ${states[1]}`];
  if (states[1] === null) return [`  ${style.red(`- ${sanitizeLine(id)}`)}  only in the first, ${states[0]}`];
  const state =
    states[0] === states[1]
      ? paintOutcome(states[0], style)
      : `${paintOutcome(states[0], style)} → ${paintOutcome(states[1], style)}`;
  const [code, otherCode] = exitCodes;
  const codes = code === null || otherCode === null || code === otherCode ? '' : `, exit code ${code} → ${otherCode}`;
  const differs = keys.length === 0 ? '' : `; differs in ${sanitizeLine(keys.join(', '))}`;
  return [
    `  ${name}  ${state}${codes}${times(tookMs)}${differs}`,
    ...outputs.flatMap((output) => renderOutput(output, style)),
  ];
}

function renderOutput({ name, refs, lines }: OutputDiff, style: Style): string[] {
  const what = name === null ? 'output' : `output ${sanitizeLine(name)}`;
  return [
    `    ${what}: ${describeRef(refs[0])} → ${describeRef(refs[1])}`,
    ...(lines ?? []).map((line) => `    ${signed(line, style)}`),
  ];
}

function describeRef(ref: DataRef | null): string {
  return ref === null ? 'none' : `${formatBytes(ref.sizeBytes)} (${ref.sha256.slice(0, 12)})`;
}

function times([from, to]: Both<number | null>): string {
  if (from === null || to === null) return '';
  return `, ${formatDurationMs(from)} → ${formatDurationMs(to)}`;
}

function formatDuration(ms: number | null): string {
  return ms === null ? '' : `  ${formatDurationMs(ms)}`;
}

function signed({ sign, text }: DiffLine, style: Style): string {
  const line = `${sign} ${sanitizeLine(text)}`;
  if (sign === ' ') return style.dim(line);
  return sign === '-' ? style.red(line) : style.green(line);
}
