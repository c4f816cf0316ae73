import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderSecrets } from '../../render/secrets/secrets.ts';
import { parseSecrets } from '../../secrets/answers.ts';
import { reportProgress } from '../../secrets/options.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.addHelpText('after', '\nThe list has no values: no command and no route shows one.');
  },
  async execute(_args, { json }, context) {
    const { stdout, stderr } = context;
    const request = { method: 'GET', path: ['secrets'], onProgress: reportProgress(context) } as const;
    const secrets = parseSecrets(await askTokenService(context, request));
    if (json === true) {
      await stdout.write(`${JSON.stringify({ secrets })}\n`);
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    if (secrets.length === 0)
      await stderr.write(context.advise('There are no secrets. Set one: voidbox secret set NAME\n'));
    else await stdout.write(`${renderSecrets(secrets, layout).join('\n')}\n`);
    return EXIT.success;
  },
});
