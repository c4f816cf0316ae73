import { endLogin } from '../../../app/access/login.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command.addHelpText(
      'after',
      '\nThe token stays valid. On the machine of the service, this ends it: voidbox token revoke NAME',
    );
  },
  async execute(_args, { json }, { env, stdout, stderr, warn }) {
    const server = endLogin(env);
    if (json === true) {
      await stdout.write(`${JSON.stringify({ server })}\n`);
      return EXIT.success;
    }
    await stderr.write(
      server === null
        ? 'There was no login.\n'
        : `Commands about runs use this machine again. The token for ${sanitizeLine(server)} stays valid.\n`,
    );
    if (env.service !== null) await warn(`VOIDBOX_SERVER names ${env.service.name}, and is still used`);
    return EXIT.success;
  },
});
