import { InvalidArgumentError, Option } from 'commander';
import type { MockRequest } from '../../domain/plan/mocks.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { RANGES, SCALES } from '../../domain/spec/grammar/values.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';
import { addBaseDirOption, type BaseDirOption, takeBaseDir } from '../base-dir.ts';
import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { compileRun } from '../compile-run.ts';
import { settingsFor } from '../host-settings.ts';
import { addRunOptions, type RunOptions, takeImagePlaces, takeRunOptions } from '../run-options.ts';

interface Options extends RunOptions, BaseDirOption {
  readonly mode?: 'mock';
  readonly mock?: MockRequest;
  readonly mockAgents?: boolean;
  readonly timeout?: number;
  readonly deadline?: number;
  readonly events?: boolean;
}

export const command = defineCommand<Options>({
  withEquals: ['--mock'],
  configure: (command) => {
    command.argument('<file>', 'the spec, or its definition in TypeScript or JavaScript; - is standard input');
    addRunOptions(command);
    addBaseDirOption(command);
    command.addOption(
      new Option(
        '--mode <mode>',
        "try a spec's shape without VMs: nothing runs, and a few programs (echo, cat, tr, …) are simulated",
      ).choices(['mock']),
    );
    command.addOption(
      new Option(
        '--mock [=stage]',
        'stages come to their `mock` in place of their work: all that have one, or the named ones; repeatable',
      ).argParser(parseMock),
    );
    command.option(
      '--mock-agents',
      'the mock agent plays every agent, in its VM and without a model; `MOCK_AGENT_SCRIPT` in `env` says what it does',
    );
    command.option(
      '--timeout <duration>',
      "time limit for the run, instead of the spec's `timeout_secs`: 90s, 2h, 1d; time in which the run only waits (approvals, waits) does not count, see --deadline",
      parseTimeout,
    );
    command.option(
      '--deadline <duration>',
      'time limit for the run in which all time counts, also that of approvals and waits',
      parseTimeout,
    );
    command.option('--events', 'with --json: each event as a line of JSON on standard output, before the result');
  },
  async execute([file = ''], options, context) {
    if (file === '-' && options.input === '-') throw usageError('standard input cannot be both the spec and the input');
    const { param: params = {}, mode = null, mock = null, mockAgents = false, json = false } = options;
    const baseDir = takeBaseDir(options, context.cwd);
    const read = await compileRun(
      file,
      {
        params,
        settings: settingsFor(context),
        ...(baseDir === undefined ? {} : { baseDir }),
        mode,
        mock: () => mock,
        mockAgents,
        images: takeImagePlaces(options, context),
        json,
      },
      context,
    );
    const { timeout, deadline, events = false } = options;
    if (events && !json) throw usageError('--events is for --json', 'Add --json, or leave --events out.');
    const limited = (plan: Plan): Plan => ({
      ...plan,
      ...(timeout === undefined ? {} : { timeoutMs: timeout }),
      ...(deadline === undefined ? {} : { deadlineMs: deadline }),
    });
    const compiled = { ...read, plan: limited(read.plan), written: limited(read.written) };
    const taken = takeRunOptions(compiled.plan, options, context);
    // Loaded only now: what is wrong with a spec is told without the Temporal SDK.
    const { runPlan } = await import('../run-plan.ts');
    return await runPlan({ ...compiled, ...taken, events, from: null }, context);
  },
});

/** Nothing behind `=`, or no `=`: all that have one. */
function parseMock(text: string, before?: MockRequest): MockRequest {
  const names = text.split(',').filter((name) => name !== '');
  if (names.length === 0 || before === 'all') return 'all';
  return [...new Set([...(before ?? []), ...names])];
}

const { min, max } = RANGES.runTimeoutSecs;

function parseTimeout(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null && ms >= min * SCALES.msPerSecond && ms <= max * SCALES.msPerSecond) return ms;
  throw new InvalidArgumentError(
    `It must be a number with s, m, h or d, such as 90s or 2h, from ${min}s to ${max / 86_400}d.`,
  );
}
