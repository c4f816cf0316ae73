import type { TextsPlan, WaitWork } from '../../../plan/plan.ts';
import { parseTimeMs } from '../../../units/time.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import { hasStandIn } from '../../read/params.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type WaitSpec = NonNullable<StageSpec['wait']>;

/** A name that only an expression contains, and no time. */
const READS = /\b(?:stages|params)\b/;
const OPENING = '${{ ';

/** Adds the braces to a bare expression, which an author may write as in a condition. */
export function toUntilTemplate(until: Located<string>): Located<string> {
  const { value, at, textAt } = until;
  if (value.includes('${{') || !READS.test(value)) return until;
  const text = { value: `${OPENING}${value.trim()} }}`, at };
  if (textAt === undefined) return text;
  const indent = value.length - value.trimStart().length;
  return { ...text, textAt: { line: textAt.line, column: textAt.column + indent - OPENING.length } };
}

/** @param texts  the texts of the stage with expressions; null if no text has one */
export function compileWait(
  { forMs, until }: WaitSpec,
  what: string,
  texts: TextsPlan | null,
  fill: Filler,
  problems: Problems,
): WaitWork {
  if (until === null) return { kind: 'wait', forMs, untilMs: null };
  const made = texts?.texts.find(({ place }) => place.kind === 'until');
  if (made !== undefined) {
    const shown = made.parts.map((part) => (typeof part === 'string' ? part : `\${{ ${texts!.sources[part]!} }}`));
    return { kind: 'wait', forMs: null, untilMs: null, until: shown.join('') };
  }
  // The reader has already reported an empty time.
  if (until.value === '') return { kind: 'wait', forMs, untilMs: null };
  const errorsBefore = problems.errorCount();
  const filled = fill(toUntilTemplate(until)).trim();
  const untilMs = parseTimeMs(filled);
  // The run computes the time.
  if (untilMs === null && hasStandIn(filled)) return { kind: 'wait', forMs: null, untilMs: null, until: filled };
  if (untilMs === null && problems.errorCount() === errorsBefore)
    problems.error(
      'spec/bad-value',
      until.at,
      `\`until\` of ${what} is ${quote(filled)}, which is not a time`,
      'write date, time and offset from UTC, such as 2026-12-01T09:00:00Z or 2026-12-01T09:00:00+01:00, or an expression that returns such a text, such as stages.plan.json.at',
    );
  return { kind: 'wait', forMs, untilMs };
}
