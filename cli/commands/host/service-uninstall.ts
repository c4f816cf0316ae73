import { createToolRunner, removeUnit } from '../../../app/systemd/user-unit.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.addHelpText(
      'after',
      '\nThe stack stops. Runs, deployments and secrets stay, and open runs continue after `voidbox up`.',
    );
  },
  async execute(_args, { json }, context) {
    const { env, cwd, stdout, stderr } = context;
    const onStep = (line: string): void => void stderr.write(`==> ${line}\n`);
    const place = { env, cwd, node: process.execPath, root: findPackageRoot() };
    const { path, isRemoved } = await removeUnit({ ...place, run: createToolRunner(env), onStep });
    if (json === true) await stdout.write(`${JSON.stringify({ path, isRemoved })}\n`);
    else await stdout.write(isRemoved ? `removed ${path}\n` : `there is no unit ${path}\n`);
    return EXIT.success;
  },
});
