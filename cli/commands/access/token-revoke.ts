import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseToken } from '../../access/answers.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<name>', 'the name of the token');
  },
  async execute([name = ''], options, context) {
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    const path = ['tokens', name, 'revoke'];
    const token = parseToken(await askTokenService(context, { method: 'POST', path, onProgress }));
    await context.stdout.write(
      options.json === true
        ? `${JSON.stringify(token)}\n`
        : `revoked ${token.name}: its open requests end within 5 seconds, and its runs continue\n`,
    );
    return EXIT.success;
  },
});
