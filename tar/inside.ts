/** Checks that paths and links of a tar stay inside the folder that it is unpacked into. Pure. */

/** The most names in a path: unpacking holds a descriptor for each folder of the path. */
export const MAX_DEPTH = 128;

/** Returns the path without `.` and empty names; null if it could leave the folder or contains an invalid name. */
export function cleanPath(path: string): string | null {
  if (path.startsWith('/') || path.includes('\0') || path.length > 4096) return null;
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.length > MAX_DEPTH || parts.some((part) => part === '..' || part.length > 255))
    return null;
  return parts.join('/');
}

/**
 * Returns true for a relative target whose `..` all come first and do not outnumber the folders above the link. A `..`
 * after a name could climb out of the folder that another link leads to. The keeper and the guest apply the same rule.
 */
export function linkStaysInside(path: string, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0') || target.length > 4096) return false;
  let above = path.split('/').length - 1;
  let named = false;
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') named = true;
    else if (named || above === 0) return false;
    else above -= 1;
  }
  return true;
}
