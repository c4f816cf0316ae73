/** Options of `voidbox retry RUN --continue`. */
import { type Command, InvalidArgumentError } from 'commander';
import { isLimit, LIMIT_RANGES } from '../../domain/plan-rules/agent-limits.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';

export function addContinueOptions(command: Command): void {
  command
    .option(
      '--continue',
      'let agents that did not succeed continue their saved sessions and files; their limits count from zero',
    )
    .option(
      '--fresh <stage>',
      'with --continue: restart the agent of this stage, or of an item (`fixes[1].work`), instead; repeatable',
      (stage: string, before?: readonly string[]) => [...(before ?? []), stage],
    )
    .option(
      '--agent-timeout <duration>',
      'with --continue: time limit of each agent that continues: 90s, 2h',
      parseTimeout,
    )
    .option(
      '--max-cost-usd <dollars>',
      'with --continue: maximum cost of each agent that continues',
      limitOf('maxCostUsd'),
    )
    .option(
      '--max-tokens <number>',
      'with --continue: maximum number of tokens of each agent that continues',
      limitOf('maxTokens'),
    )
    .option(
      '--max-turns <number>',
      'with --continue: maximum number of model calls of each agent that continues',
      limitOf('maxTurns'),
    );
}

function parseTimeout(text: string): number {
  const ms = parseDurationMs(text);
  if (isLimit('timeoutMs', ms)) return ms;
  throw new InvalidArgumentError('It must be a number with s, m, h or d, such as 90s or 2h, from 1s to 7d.');
}

function limitOf(name: keyof typeof LIMIT_RANGES): (text: string) => number {
  return (text) => {
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (isLimit(name, value)) return value;
    const { min, max, integer } = LIMIT_RANGES[name];
    throw new InvalidArgumentError(`It must be a ${integer ? 'whole ' : ''}number from ${min} to ${max}.`);
  };
}
