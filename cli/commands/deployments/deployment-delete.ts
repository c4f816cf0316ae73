import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<name>', 'the name of the deployment');
  },
  async execute([name = ''], options, context) {
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    await askTokenService(context, { method: 'DELETE', path: ['deployments', name], onProgress });
    await context.stdout.write(
      options.json === true
        ? `${JSON.stringify({ name, isDeleted: true })}\n`
        : `deleted ${name}: its triggers start nothing, and its runs continue\n`,
    );
    return EXIT.success;
  },
});
