import { relative } from 'node:path';
import type { PlacedDiagnostic } from '../../skill-kit/lint/diagnostic.ts';
import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { renderLint } from '../render/lint.ts';
import { orAuthorsError } from '../skill-error.ts';

interface Options {
  readonly json?: boolean;
  readonly maxWarnings?: string;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<entry...>', 'entries of skills, or their folders')
      .option('--max-warnings <number>', 'exit with 1 when there are more warnings; no limit by default');
  },
  async execute(entries, options, context) {
    const limit = options.maxWarnings === undefined ? Number.POSITIVE_INFINITY : Number(options.maxWarnings);
    if (!(limit >= 0) || options.maxWarnings === '')
      throw usageError(`--max-warnings is \`${options.maxWarnings}\``, 'It takes a number from 0.');
    const { lintSkill } = await import('../../skill-kit/lint/lint-skill.ts');
    const { sorted } = await import('../../skill-kit/lint/diagnostic.ts');
    const found: PlacedDiagnostic[] = [];
    for (const entry of entries) found.push(...(await orAuthorsError(lintSkill(entry, { cwd: context.cwd }))));
    // Entries share files, whose mistakes are shown once.
    const diagnostics = sorted(found).map((one) => ({
      ...one,
      file: shortest(relative(context.cwd, one.file), one.file),
    }));
    const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
    if (options.json)
      await context.stdout.write(`${JSON.stringify({ errors, warnings: diagnostics.length - errors, diagnostics })}\n`);
    else await context.stdout.write(renderLint(diagnostics, context.stdout.style));
    return errors > 0 || diagnostics.length - errors > limit ? EXIT.runFailed : EXIT.success;
  },
});

function shortest(one: string, other: string): string {
  return one.length <= other.length ? one : other;
}
