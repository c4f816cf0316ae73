import { relative } from 'node:path';
import type { PlacedDiagnostic } from '../../../skill-kit/lint/diagnostic.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderLint } from '../../render/skills/lint.ts';
import { codeAuthorErrors } from '../../skills/skill-error.ts';

interface Options {
  readonly json?: boolean;
  readonly maxWarnings?: string;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command
      .argument('<entry...>', 'files whose default export is a step machine, or their folders')
      .option('--max-warnings <number>', 'exit with 1 if there are more warnings (default: no limit)');
  },
  async execute(entries, options, context) {
    const limit = options.maxWarnings === undefined ? Number.POSITIVE_INFINITY : Number(options.maxWarnings);
    if (!(limit >= 0) || options.maxWarnings === '')
      throw createUsageError(`--max-warnings is \`${options.maxWarnings}\``, 'It must be a number from 0.');
    const { lintSkill } = await import('../../../skill-kit/lint/lint-skill.ts');
    const { sortDiagnostics } = await import('../../../skill-kit/lint/diagnostic.ts');
    const found: PlacedDiagnostic[] = [];
    let notFound: { readonly cause: unknown } | null = null;
    for (const entry of entries) {
      try {
        found.push(...(await codeAuthorErrors(lintSkill(entry, { cwd: context.cwd }))));
      } catch (cause) {
        // Report the findings of all other entries first.
        notFound ??= { cause };
      }
    }
    if (notFound !== null && found.length === 0) throw notFound.cause;
    // Entries share files, whose mistakes are shown once.
    const diagnostics = sortDiagnostics(found).map((one) => ({
      ...one,
      file: shortest(relative(context.cwd, one.file), one.file),
    }));
    const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
    if (options.json)
      await context.stdout.write(`${JSON.stringify({ errors, warnings: diagnostics.length - errors, diagnostics })}\n`);
    else await context.stdout.write(renderLint(diagnostics, context.stdout.style));
    if (notFound !== null) throw notFound.cause;
    return errors > 0 || diagnostics.length - errors > limit ? EXIT.runFailed : EXIT.success;
  },
});

function shortest(one: string, other: string): string {
  return one.length <= other.length ? one : other;
}
