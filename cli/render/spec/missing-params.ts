/** Help for commands that read a spec and start nothing, about parameters that a run must still set. */

export const REQUIRE_PARAMS_HELP = 'parameters without a default and without a value are errors';

/** Empty if no parameter is missing. The grammar allows no names that need quotes. */
export function renderMissingParams(names: readonly string[]): string {
  if (names.length === 0) return '';
  return `parameters that a run must give: ${names.map((name) => `--param ${name}=…`).join(' ')}\n`;
}
