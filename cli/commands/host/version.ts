import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { readVersion } from '../../../setup/package-version.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: () => undefined,
  async execute(_args, options, context) {
    const version = readVersion();
    await context.stdout.write(
      options.json ? `${JSON.stringify({ version, node: process.versions.node })}\n` : `${version}\n`,
    );
    return EXIT.success;
  },
});
