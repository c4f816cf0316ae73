import { takeField } from '../../runs/answer-field.ts';
import { defineCommand } from '../../command.ts';

interface Options {
  readonly json?: boolean;
  readonly comment?: string;
  readonly by?: string;
  readonly field?: Readonly<Record<string, string>>;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[stage]', 'the stage that asks; may be left out when only one does')
      .option(
        '-f, --field <name=value>',
        'a value that the approval asks for; none is required; may be repeated',
        takeField,
      )
      .option('-c, --comment <text>', 'why; it stands in the run and in the failure')
      .option('--by <name>', 'who answers; your user name when left out');
  },
  async execute(args, { field, ...options }, context) {
    const { answerRun } = await import('../../runs/answer-run.ts');
    return await answerRun('reject', args, { ...options, fields: field ?? {} }, context);
  },
});
