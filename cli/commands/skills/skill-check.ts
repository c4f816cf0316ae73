import type { LintDiagnostic } from '../../../skill-kit/lint/diagnostic.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderLint } from '../../render/skills/lint.ts';
import { codeAuthorErrors } from '../../skills/skill-error.ts';

interface Options {
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command.argument('<entry>', 'the file whose default export is the step machine, or its folder');
  },
  async execute([entry = ''], options, context) {
    const { checkSource } = await import('../../../skill-kit/lint/check-source.ts');
    const { definition, diagnostics } = await codeAuthorErrors(checkSource(entry, { cwd: context.cwd }));
    if (options.json) {
      const { kind = null, name = null, version = null } = definition ?? {};
      await context.stdout.write(`${JSON.stringify({ kind, name, version, diagnostics })}\n`);
    } else {
      const what = definition === null || diagnostics.length > 0 ? '' : `${definition.name} ${definition.version}: `;
      await context.stdout.write(what + renderLint(diagnostics, context.stdout.style));
    }
    return diagnostics.some(isError) ? EXIT.runFailed : EXIT.success;
  },
});

function isError({ severity }: LintDiagnostic): boolean {
  return severity === 'error';
}
