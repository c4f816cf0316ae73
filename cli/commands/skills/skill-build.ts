import type { BunTarget } from '../../../skill-kit/bundle/bun.ts';
import type { BuildMode, BuildReport, BuildResult } from '../../../skill-kit/bundle/build-skill.ts';
import type { PlacedDiagnostic } from '../../../skill-kit/lint/diagnostic.ts';
import { AppError, createEnvironmentError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { renderLint } from '../../render/skills/lint.ts';
import { codeAuthorErrors } from '../../skills/skill-error.ts';

interface Options {
  readonly json?: boolean;
  readonly out: string;
  readonly mode: string;
  readonly targets?: string;
  readonly single?: boolean;
  readonly protocol: string;
  readonly force?: boolean;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command
      .argument('<entry>', 'the file whose default export is the step machine, or its folder')
      .requiredOption('-o, --out <folder>', "the output folder; its name must be the step machine's name")
      .option('--mode <mode>', 'node: a bundle that Node runs; bun: executables that need no Node', 'node')
      .option('--targets <list>', 'platforms of the executables, such as linux-x64,darwin-arm64 (the default)')
      .option('--single', "only an executable for this machine's platform")
      .option(
        '--protocol <protocol>',
        'how SKILL.md tells agents to call the program: session (state in a file) or stateless (the agent keeps the history)',
        'session',
      )
      .option('--force', 'build into a folder that has other files; replaces only the files of a build');
  },
  async execute([entry = ''], options, context) {
    const { protocol } = options;
    if (protocol !== 'session' && protocol !== 'stateless')
      throw createUsageError(`--protocol is \`${protocol}\``, 'It must be session or stateless.');
    const mode = await modeOf(options, context);
    const [{ buildSkill }, { lintSkill }] = await Promise.all([
      import('../../../skill-kit/bundle/build-skill.ts'),
      import('../../../skill-kit/lint/lint-skill.ts'),
    ]);
    const force = options.force === true;
    const result = await codeAuthorErrors(
      buildSkill({
        path: entry,
        cwd: context.cwd,
        outDir: options.out,
        mode,
        protocol,
        force,
        lint: (path) => lintSkill(path),
      }),
    );
    return await printResult(result, options, context);
  },
});

async function modeOf({ mode, targets, single }: Options, context: CliContext): Promise<BuildMode> {
  if (mode === 'node') {
    if (targets !== undefined || single)
      await context.stderr.write(
        'note: a bundle for Node runs on every platform; --targets and --single are for --mode bun\n',
      );
    return { kind: 'node' };
  }
  if (mode !== 'bun') throw createUsageError(`--mode is \`${mode}\``, 'It must be node or bun.');
  if (targets !== undefined && single)
    throw createUsageError('--single and --targets cannot be combined', 'Pass only one of them.');
  const { DEFAULT_TARGETS } = await import('../../../skill-kit/bundle/bun.ts');
  const named = single ? [`${process.platform}-${process.arch}`] : targets?.split(',').map((one) => one.trim());
  const chosen = named === undefined ? DEFAULT_TARGETS : await checkTargets(named);
  const { findOnPath } = await import('../../../setup/pieces/find-program.ts');
  const [bun] = findOnPath(context.env, ['bun']);
  if (bun === undefined) {
    const { remedyOf } = await import('../../../domain/errors/error-code.ts');
    throw createEnvironmentError(
      'skill/bun',
      'there is no bun on the PATH, and --mode bun needs it',
      remedyOf('skill/bun'),
    );
  }
  return { kind: 'bun', bun, targets: chosen };
}

async function checkTargets(named: readonly string[]): Promise<readonly BunTarget[]> {
  const { BUN_TARGETS, isBunTarget } = await import('../../../skill-kit/bundle/bun.ts');
  const unknown = named.filter((one) => !isBunTarget(one));
  if (unknown.length > 0)
    throw createUsageError(
      `unknown build target: \`${unknown.join('`, `')}\``,
      `Supported: ${BUN_TARGETS.join(', ')}.`,
    );
  return [...new Set(named.filter(isBunTarget))];
}

async function printResult(
  { built, diagnostics }: BuildResult<PlacedDiagnostic>,
  { json, mode }: Options,
  context: CliContext,
): Promise<0> {
  if (!json && diagnostics.length > 0) await context.stderr.write(renderLint(diagnostics, context.stderr.style));
  if (built === null) {
    if (json) await context.stderr.write(`${JSON.stringify({ diagnostics })}\n`);
    const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
    throw new AppError('usage', 'skill/lint', `${errors} ${errors === 1 ? 'error' : 'errors'}; nothing was built`);
  }
  if (json) await context.stdout.write(`${JSON.stringify({ ...built, mode, diagnostics })}\n`);
  else await printBuilt(built, context);
  return EXIT.success;
}

async function printBuilt({ name, version, folder, files, notes }: BuildReport, context: CliContext): Promise<void> {
  for (const note of notes) await context.stderr.write(`note: ${note}\n`);
  await context.stderr.write(`built ${name} ${version}: ${files.length} files\n`);
  await context.stdout.write(`${folder}\n`);
}
