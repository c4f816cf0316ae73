import type { TextsPlan, WaitWork } from '../../../plan/plan.ts';
import { parseTimeMs } from '../../../units/time.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import { hasStandIn } from '../../read/params.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type WaitSpec = NonNullable<StageSpec['wait']>;

/** What an expression reads of a spec, and no time has in it. */
const READS = /\b(?:stages|params)\b/;
const OPENING = '${{ ';

/** An expression that stands alone is written like a condition, without its braces. */
export function toUntilTemplate(until: Located<string>): Located<string> {
  const { value, at, textAt } = until;
  if (value.includes('${{') || !READS.test(value)) return until;
  const text = { value: `${OPENING}${value.trim()} }}`, at };
  if (textAt === undefined) return text;
  const indent = value.length - value.trimStart().length;
  return { ...text, textAt: { line: textAt.line, column: textAt.column + indent - OPENING.length } };
}

/** @param texts  what of its time is made in the run; null: nothing */
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
  // Reported where it was read.
  if (until.value === '') return { kind: 'wait', forMs, untilMs: null };
  const errorsBefore = problems.errorCount();
  const filled = fill(toUntilTemplate(until)).trim();
  const untilMs = parseTimeMs(filled);
  // A run gives the time.
  if (untilMs === null && hasStandIn(filled)) return { kind: 'wait', forMs: null, untilMs: null, until: filled };
  if (untilMs === null && problems.errorCount() === errorsBefore)
    problems.error(
      'spec/bad-value',
      until.at,
      `\`until\` of ${what} is ${quote(filled)}, which is not a time`,
      'write day, time and offset from UTC, such as 2026-12-01T09:00:00Z or 2026-12-01T09:00:00+01:00, or an expression that gives such a text, such as stages.plan.json.at',
    );
  return { kind: 'wait', forMs, untilMs };
}
