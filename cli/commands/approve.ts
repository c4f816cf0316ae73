import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';

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
      .option('-f, --field <name=value>', 'a value that the approval asks for; may be repeated', takeField)
      .option('-c, --comment <text>', 'why, for those who read the run')
      .option('--by <name>', 'who answers; your user name when left out');
  },
  async execute(args, { field, ...options }, context) {
    const { answerRun } = await import('../answer-run.ts');
    return await answerRun('approve', args, { ...options, fields: field ?? {} }, context);
  },
});

function takeField(text: string, fields: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const at = text.indexOf('=');
  if (at < 1) throw usageError(`--field takes NAME=VALUE, got ${JSON.stringify(text)}`, 'Write --field NAME=VALUE.');
  const name = text.slice(0, at);
  if (Object.hasOwn(fields, name)) throw usageError(`--field ${name} is given twice`, 'Give each field once.');
  return { ...fields, [name]: text.slice(at + 1) };
}
