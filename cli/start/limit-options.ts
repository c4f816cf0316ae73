/** Options for the time limits of one run. */
import { type Command, InvalidArgumentError } from 'commander';
import { RANGES, SCALES } from '../../domain/language/grammar/values.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';

export function addLimitOptions(command: Command): void {
  command
    .option(
      '--timeout <duration>',
      "time limit for the run (90s, 2h, 1d) instead of the spec's `timeout_secs`; time in which the run only waits (approvals, waits) does not count",
      parseLimit,
    )
    .option(
      '--deadline <duration>',
      'time limit for the run in which all time counts, also approvals and waits',
      parseLimit,
    );
}

const { min, max } = RANGES.runTimeoutSecs;

function parseLimit(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null && ms >= min * SCALES.msPerSecond && ms <= max * SCALES.msPerSecond) return ms;
  throw new InvalidArgumentError(
    `It must be a number with s, m, h or d, such as 90s or 2h, from ${min}s to ${max / 86_400}d.`,
  );
}
