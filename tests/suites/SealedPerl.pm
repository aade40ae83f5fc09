# Loaded (PERL5OPT) into the Perl of those TAP files that read or write stored pages themselves, in which the library acts.
#
# PostgreSQL's own helper copies backups with Perl's open. In a sealed Perl that would decrypt what it reads, and the copy's
# key file comes last: so the copy is left to cp, in which the library is inert.
package SealedPerl;

use strict;
use warnings;

use PostgreSQL::Test::RecursiveCopy;

no warnings 'redefine';

*PostgreSQL::Test::RecursiveCopy::copypath = sub {
    my ($from, $to, %options) = @_;
    die "a sealed Perl copies whole directories only\n" if %options;
    system('cp', '-RPp', '--', $from, $to) == 0 or die "cp failed\n";
    return 1;
};

1;
