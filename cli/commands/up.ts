import { resolveHostPieces } from '../../setup/resolve.ts';
import { ensureStack } from '../../client/embedded/stack.ts';
import { usageError } from '../cli-error.ts';
import { rememberSkillPaths } from '../../client/embedded/skill-paths.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { givenSkills } from '../skill-folders.ts';
import { renderStack } from '../render/stack.ts';

export const command = defineCommand<{ readonly json?: boolean; readonly skills?: readonly string[] }>({
  configure: (command) => {
    command.option(
      '--skills <folder...>',
      'folders of skills for sessions, instead of those it had; kept for later starts',
    );
  },
  async execute(_args, options, context) {
    if (context.env.temporalConfigured) {
      throw usageError(
        'TEMPORAL_* names a Temporal server of your own: the embedded stack has nothing to do with it and is not started',
        'Start a worker of that server here: voidbox worker\nOr unset TEMPORAL_ADDRESS, TEMPORAL_PROFILE and TEMPORAL_CONFIG_FILE.',
      );
    }
    if (options.skills !== undefined)
      rememberSkillPaths(context.env.stateDir, givenSkills(options.skills, context.cwd), 'replace');
    if (context.env.skills.length > 0) rememberSkillPaths(context.env.stateDir, context.env.skills, 'add');
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    // The stack starts without them; whoever starts it by hand wants a machine on which every run can start.
    await resolveHostPieces(context.env, { install: true, onProgress });
    const stack = await ensureStack(context.env, { onProgress });
    if (options.json) await context.stdout.write(`${JSON.stringify({ stack })}\n`);
    else
      await context.stdout.write(
        `${renderStack(stack, { nowMs: context.now().getTime(), stateDir: context.env.stateDir }).join('\n')}\n${context.advise('It stops by itself after 10 minutes without open runs and sessions; now: voidbox down')}\n`,
      );
    return EXIT.success;
  },
});
