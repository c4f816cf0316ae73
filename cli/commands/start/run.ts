import { Option } from 'commander';
import type { MockRequest } from '../../../domain/plan-rules/mocks.ts';
import { type BaseDirOption, resolveBaseDir } from '../../../app/start/base-dir.ts';
import { addBaseDirOption } from '../../start/spec-options.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { showNotices } from '../../start/compile-notices.ts';
import { compileRun } from '../../../app/start/compile-run.ts';
import { readSettings } from '../../../app/start/host-settings.ts';
import { limitPlan } from '../../../app/start/run-limits.ts';
import { addRunOptions, type RunOptions, resolveImagePlaces, resolveRunOptions } from '../../start/run-options.ts';

interface Options extends RunOptions, BaseDirOption {
  readonly mode?: 'mock';
  readonly mock?: MockRequest;
  readonly mockAgents?: boolean;
  readonly events?: boolean;
}

export const command = defineCommand<Options>({
  withEquals: ['--mock'],
  beforeFirst: 'Write a spec for this folder: voidbox init',
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
        'use the `mock` of stages instead of running them: of all stages that have one, or of the named ones; repeatable',
      ).argParser(parseMock),
    );
    command.option(
      '--mock-agents',
      'the mock agent plays every agent, in its VM and without a model; `MOCK_AGENT_SCRIPT` in `env` says what it does',
    );
    command.option('--events', 'with --json: each event as a line of JSON on standard output, before the result');
  },
  async execute([file = ''], options, context) {
    if (file === '-' && options.input === '-')
      throw createUsageError('standard input cannot be both the spec and the input');
    const { param: params = {}, mode = null, mock = null, mockAgents = false, json = false } = options;
    const baseDir = resolveBaseDir(options, context.cwd);
    const read = await compileRun(
      file,
      {
        params,
        settings: readSettings(context),
        ...(baseDir === undefined ? {} : { baseDir }),
        mode,
        mock: () => mock,
        mockAgents,
        images: resolveImagePlaces(options, context),
        onNotice: showNotices(context, json),
      },
      context,
    );
    const { events = false } = options;
    if (events && !json) throw createUsageError('--events is for --json', 'Add --json, or leave --events out.');
    const compiled = { ...read, plan: limitPlan(read.plan, options), written: limitPlan(read.written, options) };
    const taken = await resolveRunOptions(compiled.plan, options, context);
    // Load this late, so that errors in a spec are reported without loading the Temporal SDK.
    const { runPlan } = await import('../../start/run-plan.ts');
    return await runPlan({ ...compiled, ...taken, events, from: null }, context);
  },
});

/** `--mock` with an empty value or without one means all stages that have a `mock`. */
function parseMock(text: string, before?: MockRequest): MockRequest {
  const names = text.split(',').filter((name) => name !== '');
  if (names.length === 0 || before === 'all') return 'all';
  return [...new Set([...(before ?? []), ...names])];
}
