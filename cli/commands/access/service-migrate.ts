import { migrateOwnDatabase } from '../../../app/access/migrate.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  help: {
    common: ['--json'],
    examples: [
      ['DATABASE_URL=postgres://HOST/NAME voidbox service migrate', 'after an update of Voidbox, with a backup made'],
      ['DATABASE_URL_FILE=./address voidbox service migrate', 'with the address in a file of mode 0600'],
    ],
    notes: [
      ['Its own server', 'The stack migrates the database that it runs. It needs no command.'],
      ['Forward only', 'An older version of Voidbox refuses the database afterwards. A backup is the way back.'],
    ],
    exitCodes: [
      ['0', 'the schema has the form of this version'],
      ['2', 'no variable names a database'],
      ['3', 'environment: the database does not answer, or a newer version has changed it'],
    ],
  },
  configure: () => undefined,
  async execute(_args, options, context) {
    const warnings: string[] = [];
    const applied = await migrateOwnDatabase(context.env, (warning) => warnings.push(warning));
    for (const warning of warnings) await context.stderr.write(`${warning}\n`);
    const text = applied.length === 0 ? 'the schema is up to date' : `changed the schema: ${applied.join(', ')}`;
    await context.stdout.write(options.json === true ? `${JSON.stringify({ applied })}\n` : `${text}\n`);
    return EXIT.success;
  },
});
