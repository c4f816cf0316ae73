/** Names of deployments: they are segments of URLs and beginnings of ids of runs. */

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

/** Returns the rule that the name breaks; null for a name that a deployment may have. */
export function findNameProblem(name: string): string | null {
  if (NAME.test(name)) return null;
  return name.length > 63
    ? 'it has more than 63 characters'
    : 'a name has letters, digits, `.`, `_` and `-`, and begins with a letter or a digit';
}

/** The id of the run of a delivery. */
export function nameRun(deployment: string, delivery: string): string {
  return `${deployment}-${delivery}`;
}
