import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { parseDelivery } from '../../deliveries/answers.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDelivery } from '../../render/deliveries/deliveries.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<id>', 'the id of the delivery, from `voidbox deliveries`');
  },
  async execute([id = ''], options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const path = ['deliveries', id];
    const shown = parseDelivery(await askTokenService(context, { method: 'GET', path, onProgress }));
    const layout = { style: stdout.style, nowMs: context.now().getTime() };
    const text = options.json === true ? JSON.stringify(shown) : renderDelivery(shown, layout).join('\n');
    await stdout.write(`${text}\n`);
    return EXIT.success;
  },
});
