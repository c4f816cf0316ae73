import type { Decision } from '../../workflows/run/answer-request.ts';
import { type CommandModule, defineCommand } from '../command.ts';
import { addField } from './answer-field.ts';

interface Options {
  readonly json?: boolean;
  readonly comment?: string;
  readonly by?: string;
  readonly field?: Readonly<Record<string, string>>;
}

/** @param texts  what the help says of `--field` and `--comment` */
export function defineAnswerCommand(
  decision: Decision,
  texts: { readonly field: string; readonly comment: string },
): CommandModule {
  return defineCommand<Options>({
    configure: (command) => {
      command
        .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
        .argument('[stage]', 'the stage that asks; optional if only one asks')
        .option('-f, --field <name=value>', texts.field, addField)
        .option('-c, --comment <text>', texts.comment)
        .option('--by <name>', 'the name of the person who answers (default: your user name)');
    },
    async execute(args, { field, ...options }, context) {
      const { answerOnCommandLine } = await import('./answer-run.ts');
      return await answerOnCommandLine(decision, args, { ...options, fields: field ?? {} }, context);
    },
  });
}
