import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { parseShown } from '../../deployments/answers.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDeployment } from '../../render/deployments/deployments.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<name>', 'the name of the deployment');
  },
  async execute([name = ''], options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const path = ['deployments', name];
    const shown = parseShown(await askTokenService(context, { method: 'GET', path, onProgress }));
    const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    const text = options.json === true ? JSON.stringify(shown) : renderDeployment(shown, layout).join('\n');
    await stdout.write(`${text}\n`);
    return EXIT.success;
  },
});
