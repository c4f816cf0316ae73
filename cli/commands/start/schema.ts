import { renderSpecSchema } from '../../../domain/language/grammar/json-schema.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

/** It is JSON with `--json` and without. */
export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: () => undefined,
  async execute(_args, _options, { stdout }) {
    await stdout.write(renderSpecSchema());
    return EXIT.success;
  },
});
