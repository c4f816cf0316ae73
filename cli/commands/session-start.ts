import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { isSha256Beginning } from '../../domain/units/sha256.ts';
import { newRunId } from '../../client/new-id.ts';
import { handingOver } from '../../client/session-variables.ts';
import { checkSessionId, printResult, readJson, sessionLink, throwSessionError } from '../session-link.ts';

interface Options {
  readonly json?: boolean;
  readonly params?: string;
  readonly id?: string;
  readonly skillVersion?: string;
  readonly code?: string;
  readonly subskill?: string;
  readonly skills?: readonly string[];
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<skill>', "the skill's name")
      .option('-p, --params <json>', 'its params: JSON, `@file`, or `-` for standard input')
      .option('--id <id>', "the session's id; a new one by default")
      .option('--skill-version <version>', 'only this version of the skill')
      .option('--code <hash>', 'only this code of the skill; its first 8 digits or more')
      .option('--subskill <name>', 'begin with that sub-skill, whose params are given then')
      .option('--skills <folder...>', 'folders of skills that the embedded worker loads, instead of those it had');
  },
  async execute([skill = ''], options, context) {
    const params = options.params === undefined ? undefined : await readJson(options.params, '--params', context);
    const session = options.id ?? newRunId(skill, context.now());
    checkSessionId(session);
    if (skill === '') throw usageError('name the skill');
    if (options.code !== undefined && !isSha256Beginning(options.code))
      throw usageError(
        `--code is \`${options.code}\``,
        'It takes 8 to 64 of the hexadecimal digits of a code hash, as errors and `session status --json` show it.',
      );
    const { link, sessions } = await sessionLink(context, options.skills);
    const { skillVersion: version, code: codeHash, subskill } = options;
    const request = {
      skill,
      ...(params === undefined ? {} : { params }),
      ...(version === undefined ? {} : { version }),
      ...(codeHash === undefined ? {} : { codeHash }),
      ...(subskill === undefined ? {} : { subskill }),
    };
    try {
      if (!link.isEmbedded) await sessions.requireWorker(link.client());
      const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
      const result = await handingOver(context.env, session, onProgress, () =>
        sessions.startSession(link.client(), session, request),
      );
      return await printResult(session, result, options, context);
    } catch (error) {
      return await throwSessionError(error);
    }
  },
});
