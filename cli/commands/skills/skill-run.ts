import { defineCommand } from '../../command.ts';
import type { ExitCode } from '../../exit-code.ts';
import { codeAuthorErrors } from '../../skills/skill-error.ts';

export const command = defineCommand({
  takesAnyStateFormat: true,
  configure: (command) => {
    command.parent?.enablePositionalOptions();
    command
      .argument('<entry>', 'the file whose default export is the step machine, or its folder')
      .argument(
        '[args...]',
        'a command of the built step machine (start, advance, cleanup, topics, topic, mcp) and its flags; --help lists them',
      )
      .passThroughOptions();
  },
  async execute([entry = '', ...args], _options, context) {
    const { runFromSource } = await import('../../../skill-kit/bundle/run-skill.ts');
    // The skill's own exit code: 0 for every answer, 1 for errors, 2 for a wrong command line, or what its code leaves with.
    return (await codeAuthorErrors(runFromSource(entry, args, context.cwd))) as ExitCode;
  },
});
