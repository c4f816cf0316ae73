import { Option } from 'commander';
import type { Plan } from '../../domain/plan/plan.ts';
import { runIdProblem } from '../../domain/run/run-id.ts';
import { CliError, environmentError, usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { loadSpec, parseParam } from '../load-spec.ts';
import { renderDiagnostics } from '../render/diagnostics.ts';
import { newRunId } from '../../client/new-id.ts';

interface Options {
  readonly detach?: boolean;
  readonly input?: string;
  readonly runId?: string;
  readonly param?: Record<string, string>;
  readonly mode?: 'mock';
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<file>', 'the spec; - is standard input')
      .option('-d, --detach', 'start the run and do not follow it')
      .option(
        '-i, --input <text>',
        'what the first stages find in /workspace/input.json; @FILE reads a file, - standard input',
      )
      .option('--param <name=value>', "a value for one of the spec's params; once for each", parseParam)
      .option('--run-id <id>', 'the id of the run instead of a made-up one')
      .addOption(
        new Option(
          '--mode <mode>',
          "start no VM and run nothing for real: simulates a few programs (echo, cat, tr, …), to try a spec's shape",
        ).choices(['mock']),
      );
  },
  async execute([file = ''], options, context) {
    const { plan, baseDir } = await compile(file, options, context);
    const runId = options.runId ?? newRunId(plan.name, context.now());
    const problem = runIdProblem(runId);
    if (problem !== null) throw usageError(`\`${runId}\` cannot be a run id: ${problem}`);
    const hostVariables = takeHostVariables(plan, context);
    // Loaded only now: what is wrong with a spec is told without the Temporal SDK.
    const { runPlan } = await import('../run-plan.ts');
    return await runPlan(
      {
        plan,
        runId,
        hostVariables,
        baseDir,
        input: options.input ?? null,
        detach: options.detach ?? false,
        json: options.json ?? false,
      },
      context,
    );
  },
});

async function compile(
  file: string,
  options: Options,
  context: CliContext,
): Promise<{ readonly plan: Plan; readonly baseDir: string }> {
  if (file === '-' && options.input === '-') throw usageError('standard input cannot be both the spec and the input');
  const { plan, baseDir, diagnostics, text } = await loadSpec(file, options.param ?? {}, context);
  if (options.json && plan === null) {
    await context.stderr.write(`${JSON.stringify({ diagnostics })}\n`);
  } else if (diagnostics.length > 0 && !options.json) {
    await context.stderr.write(
      renderDiagnostics(diagnostics, text, { style: context.stderr.style, width: context.stderr.width() }),
    );
  }
  if (plan === null) throw new CliError(EXIT.usage, 'spec/invalid', `\`${file}\` is not a spec that can run`);
  return { plan: options.mode === 'mock' ? inMock(plan) : plan, baseDir };
}

/** The flag is a word of its own: it lowers the isolation that the spec demands. */
function inMock(plan: Plan): Plan {
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, mode: 'mock', isolation: 'none' } })),
  };
}

function takeHostVariables(plan: Plan, { env }: CliContext): Record<string, string> {
  const missing = plan.hostVariables.filter((name) => env.variables[name] === undefined);
  if (missing.length > 0) {
    const names = missing.map((name) => `\`${name}\``).join(', ');
    throw environmentError(
      'host/variable-missing',
      `the spec reads ${names} from the environment, where ${missing.length === 1 ? 'it is' : 'they are'} not set`,
      `Set ${missing.length === 1 ? 'it' : 'them'}: export ${missing.map((name) => `${name}=…`).join(' ')}`,
    );
  }
  return Object.fromEntries(plan.hostVariables.map((name) => [name, env.variables[name] ?? '']));
}
