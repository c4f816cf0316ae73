import { Option } from 'commander';
import type { MockRequest } from '../../../domain/plan-rules/mocks.ts';
import { type BaseDirOption, resolveBaseDir } from '../../../app/start/base-dir.ts';
import { addBaseDirOption } from '../../start/spec-options.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { openRunControl } from '../../../app/control/open-run-control.ts';
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
  help: {
    common: ['--param', '--input', '--detach', '--mock-agents', '--timeout', '--json'],
    examples: [
      ['voidbox run voidbox.yaml', 'run it and follow it'],
      ['voidbox run voidbox.yaml --param who=you', 'set a parameter'],
      ['voidbox run voidbox.yaml --mock-agents', 'without a model and a key'],
      ['voidbox run voidbox.yaml --detach', 'do not wait for its end'],
    ],
    notes: [
      ['Output', 'The result goes to standard output; progress and errors go to standard error.'],
      [
        'Ctrl-C',
        'The first one cancels the run and waits for its end, with its `finally` stages; the second one exits at once.',
      ],
      [
        'Server',
        'Without TEMPORAL_* variables, it starts an embedded Temporal server and worker. With them, a `voidbox worker` of your server runs the stages.',
      ],
    ],
    exitCodes: [
      ['0', 'the run succeeded'],
      ['1', 'the run failed, was terminated or was cancelled'],
      ['2', 'the spec or the command line has a mistake'],
      ['3', 'environment: the machine, the server or a variable'],
      ['130', 'Ctrl-C cancelled the run'],
    ],
  },
  configure: (command) => {
    command.argument(
      '<file>',
      'a spec in YAML or JSON, or a definition in TypeScript or JavaScript; - reads a spec from standard input',
    );
    addRunOptions(command);
    addBaseDirOption(command);
    command.addOption(
      new Option(
        '--mode <mode>',
        'try the structure of a spec without VMs: no program runs, and a few (echo, cat, tr, …) are simulated',
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
      'run every agent without a model: the mock agent plays it in its VM, with the actions in `MOCK_AGENT_SCRIPT` of its `env`',
    );
    command.option('--events', 'with --json: print each event as a line of JSON before the result');
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
    const control = await openRunControl(context);
    const request = { ...compiled, ...taken, from: null, mayAsk: !json };
    return await runPlan(
      { ...taken, events, shown: null, start: (onProgress) => control.start(request, onProgress) },
      context,
    );
  },
});

/** `--mock` with an empty value or without one means all stages that have a `mock`. */
function parseMock(text: string, before?: MockRequest): MockRequest {
  const names = text.split(',').filter((name) => name !== '');
  if (names.length === 0 || before === 'all') return 'all';
  return [...new Set([...(before ?? []), ...names])];
}
