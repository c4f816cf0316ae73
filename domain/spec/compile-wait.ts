import type { WaitWork } from '../plan/plan.ts';
import { parseTimeMs } from '../units/time.ts';
import type { Problems } from './problems.ts';
import type { StageSpec } from './spec.ts';
import { quote } from './tree.ts';

type WaitSpec = NonNullable<StageSpec['wait']>;

export function compileWait({ forMs, until }: WaitSpec, what: string, problems: Problems): WaitWork {
  const untilMs = until === null ? null : parseTimeMs(until.value);
  if (until !== null && untilMs === null)
    problems.error(
      'spec/bad-value',
      until.at,
      `\`until\` of ${what} is ${quote(until.value)}, which is not a time`,
      'write day, time and offset from UTC, such as 2026-12-01T09:00:00Z or 2026-12-01T09:00:00+01:00',
    );
  return { kind: 'wait', forMs, untilMs };
}
