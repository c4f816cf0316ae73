/** What of a tar stays inside the folder that it is unpacked into. Pure. */

/** Names of a path; each folder on the way holds a descriptor while it is used. */
export const MAX_DEPTH = 128;

/** A path of a tar without `.` and empty names; null when it could leave the folder, or a name of it is not one. */
export function cleanPath(path: string): string | null {
  if (path.startsWith('/') || path.includes('\0') || path.length > 4096) return null;
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.length > MAX_DEPTH || parts.some((part) => part === '..' || part.length > 255))
    return null;
  return parts.join('/');
}

/**
 * True for a relative target whose `..` all stand at its front and do not outnumber the folders above the link: a `..`
 * behind a name could climb out of what another link leads to. The keeper and the guest judge links alike.
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
