import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseRekeyed } from '../../secrets/answers.ts';
import { reportProgress } from '../../secrets/options.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.addHelpText(
      'after',
      '\nPut a new key on the first line of the key file, above the others, and run this. Then remove the other keys.',
    );
  },
  async execute(_args, { json }, context) {
    const request = { method: 'POST', path: ['secrets', 'rekey'], onProgress: reportProgress(context) } as const;
    const rekeyed = parseRekeyed(await askTokenService(context, request));
    const { keyId, changed } = rekeyed;
    const text =
      keyId === null
        ? 'there are no secrets'
        : `all secrets are encrypted with the key ${keyId}; ${changed} of them had another one`;
    await context.stdout.write(json === true ? `${JSON.stringify(rekeyed)}\n` : `${text}\n`);
    return EXIT.success;
  },
});
